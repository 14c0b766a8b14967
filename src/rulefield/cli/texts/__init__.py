"""Commands that begin with texts: training on what annotation tools export."""
