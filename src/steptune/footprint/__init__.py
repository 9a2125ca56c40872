"""What a layout asks of one device: bytes by phase, and the roofline of decode and prefill."""
