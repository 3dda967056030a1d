ALL = []
