"""What people and their programs reach by HTTP: the console, and the face of the schema registry."""
