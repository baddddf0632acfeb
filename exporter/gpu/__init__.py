"""GPUs: NVML, sampling with timeouts, clocks and throttle reasons."""
