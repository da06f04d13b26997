def process(value):
    return value
