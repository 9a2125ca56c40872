"""The layers the model families are made of."""
