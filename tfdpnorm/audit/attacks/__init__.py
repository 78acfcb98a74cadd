"""After the fact: attacks that bound epsilon from below."""
