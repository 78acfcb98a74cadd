"""After training: attacks that measure sensitivity and bound epsilon from below."""
