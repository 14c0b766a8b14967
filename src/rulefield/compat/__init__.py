"""Names and habits of other libraries, for code that moves over."""
