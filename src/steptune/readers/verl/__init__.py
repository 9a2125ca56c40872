"""verl: console lines `step:N - key:value - ...` of `main_ppo`, one-step-off, fully async and V1 trainers."""
