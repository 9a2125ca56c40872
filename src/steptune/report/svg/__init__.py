"""Drawers of the three chart blocks.

Every row of a chart is its own small SVG with coordinates in percent, labels and values beside it in HTML: bars
stretch with the window while text keeps its size and wraps, from a phone to a wide screen, without a script.
"""
