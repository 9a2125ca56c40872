"""A campaign of forecasts written before their trials: jobs drawn by seed, any engine, one journal, one score."""
