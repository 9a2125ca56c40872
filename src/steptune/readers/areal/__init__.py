"""AReaL: `Epoch i/n Step j/m Train step k/t done.` and box tables of `key │ value` pairs, four columns wide."""
