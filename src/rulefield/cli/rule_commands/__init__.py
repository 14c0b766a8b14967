"""What the commands of ``rulefield rules`` do."""
