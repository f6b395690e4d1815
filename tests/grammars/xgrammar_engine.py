"""xgrammar, which vLLM and SGLang hold models with, over single bytes instead of a model's tokens.

It imports PyTorch and Transformers for masks and tokenizers. Neither is needed to follow a text byte by
byte, and both are large: they are stood in for.
"""

import sys
import types

# Before the stand-ins: it looks whether PyTorch is there.
import tvm_ffi  # noqa: F401  pylint: disable=unused-import


class _StandIn(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__module__": self.__name__, "__init__": lambda self, *_, **__: None})
        setattr(self, name, made)
        return made


for _name in ("torch", "transformers", "triton", "triton.language"):
    sys.modules[_name] = _StandIn(_name)

import xgrammar  # noqa: E402

_BYTES = [bytes([byte]) for byte in range(256)]
_END = len(_BYTES)


class Engine:
    def __init__(self):
        vocabulary = [*_BYTES, b"</s>"]
        tokens = xgrammar.TokenizerInfo(
            vocabulary,
            vocab_type=xgrammar.VocabType.RAW,
            vocab_size=len(vocabulary),
            stop_token_ids=[_END],
        )
        self.compiler = xgrammar.GrammarCompiler(tokens)

    def accepts(self, tag, text):
        """Whether a structural tag's format accepts this text as a whole."""
        grammar = self.compiler.compile_structural_tag({"type": "structural_tag", "format": tag})
        matcher = xgrammar.GrammarMatcher(grammar)
        return all(map(matcher.accept_token, text.encode())) and matcher.accept_token(_END)
