"""From a framework's settings to the layout that the bytes are counted of."""
