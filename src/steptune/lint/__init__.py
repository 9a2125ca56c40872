"""Rules the frameworks do not enforce, checked before anything runs."""
