"""What is told of a time in the past: `known` asks for decisions that were made by then, `then` says what they mean."""
