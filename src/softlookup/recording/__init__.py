"""One forward of a model, its attention kept so that any map of it can be asked for afterwards."""

from softlookup.recording.one_forward import Recording, record_attention, recorded_calls
from softlookup.recording.recorded_call import RecordedCall

__all__ = ["RecordedCall", "Recording", "record_attention", "recorded_calls"]
