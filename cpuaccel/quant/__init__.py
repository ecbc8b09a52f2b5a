"""The int8 quantized engine."""
