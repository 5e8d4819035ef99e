"""The learner's track: lessons, exercises that name the mistake, a quiz, and grading for a class."""
