"""What a GPU is given by hand: fused critics for Hopper."""
