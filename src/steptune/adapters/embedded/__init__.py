"""The engine of this repository as a framework: its knobs, their conflicts, its work, memory and sessions."""
