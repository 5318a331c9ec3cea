"""What people ask of a validation from outside the cluster. It stays behind when the program travels into the Job, and
so may use the rest of the project.
"""
