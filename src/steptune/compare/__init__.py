"""Two jobs side by side: is this speed-up real?"""
