"""GPUs as devices: NVML, sampling with deadlines, clocks and throttle reasons."""
