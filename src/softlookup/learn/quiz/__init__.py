"""The quiz: one file of questions for each lesson."""
