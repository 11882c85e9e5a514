"""What a stream costs and what it survives: load, kills, faults and fuzz."""
