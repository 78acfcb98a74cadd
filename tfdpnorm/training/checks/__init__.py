"""What private training rejects, each with its remedy."""
