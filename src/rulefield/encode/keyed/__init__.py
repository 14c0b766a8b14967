"""Features as numbers: what tokens say is described once per distinct thing, and looked up by integer keys after that."""
