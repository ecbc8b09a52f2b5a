"""What can be measured of Arm under emulation: instructions, not time."""
