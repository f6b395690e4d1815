"""llama.cpp's own grammar engine, out of the library in the xllamacpp wheel.

The wheel has no Python names for it, but its library exports the functions that llama.cpp's own
tests of grammars use.
"""

import ctypes
import importlib.util
from pathlib import Path

_NEW = "_Z23llama_grammar_init_implPK11llama_vocabPKcS3_bPS3_mPKim"
_FREE = "_Z23llama_grammar_free_implP13llama_grammar"
_ACCEPT = "_Z20llama_grammar_acceptP13llama_grammarj"
_STACKS = "_Z24llama_grammar_get_stacksP13llama_grammar"


class _Vector(ctypes.Structure):
    """A std::vector: where its items begin and end, and where its room ends."""

    _fields_ = [("begin", ctypes.c_void_p), ("end", ctypes.c_void_p), ("room", ctypes.c_void_p)]


def _library():
    package = importlib.util.find_spec("xllamacpp")
    return ctypes.CDLL(str(next(Path(package.origin).parent.glob("*.so"))))


class Engine:
    def __init__(self):
        library = _library()
        self.new = library[_NEW]
        self.new.restype = ctypes.c_void_p
        self.new.argtypes = [
            ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_bool,
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t,
        ]
        self.free = library[_FREE]
        self.free.argtypes = [ctypes.c_void_p]
        self.accept = library[_ACCEPT]
        self.accept.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
        self.stacks = library[_STACKS]
        self.stacks.restype = ctypes.POINTER(_Vector)
        self.stacks.argtypes = [ctypes.c_void_p]

    def accepts(self, grammar, text):
        """Whether a grammar accepts this text as a whole."""
        state = self.new(None, grammar.encode(), b"root", False, None, 0, None, 0)
        if not state:
            raise ValueError("llama.cpp does not take this grammar")
        try:
            for character in text:
                self.accept(state, ord(character))
                if not self._stacks(state):
                    return False
            # An empty stack is a way to end here.
            return any(stack.begin == stack.end for stack in self._stacks(state))
        finally:
            self.free(state)

    def _stacks(self, state):
        stacks = self.stacks(state).contents
        count = ((stacks.end or 0) - (stacks.begin or 0)) // ctypes.sizeof(_Vector)
        return (_Vector * count).from_address(stacks.begin) if count else []
