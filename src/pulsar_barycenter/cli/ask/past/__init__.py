"""What is told of a past time: `decisions` asks for those that were made by then, `state` says what they mean."""
