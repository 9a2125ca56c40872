"""The embedded RL engine: small real models, real rewards, every lever a real code path."""
