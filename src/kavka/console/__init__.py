"""What people and their programs reach by HTTP: the face of the schema registry."""
