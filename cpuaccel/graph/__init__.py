"""The backend of torch.compile, and what it is made of."""
