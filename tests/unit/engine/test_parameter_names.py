"""Planning counts the tensors that the engine holds: both say the same names and shapes."""

from emberward.engine import BloomShape, parameter_shapes
from emberward.layout import Decoder


def test_a_decoder_s_tensors_are_the_engine_s():
    sizes = {"num_layers": 3, "hidden": 24, "num_heads": 4, "ffn_hidden": 80, "vocab_size": 48, "seq_len": 16}
    shape = BloomShape(**sizes, layer_norm_eps=1e-5, init_std=0.1, recompute=False)
    decoder = Decoder(**sizes)
    tensors = [*decoder.first_tensors(), *decoder.last_tensors(is_also_first=True)]
    for layer in range(decoder.num_layers):
        tensors += decoder.layer_tensors(layer)
    assert {tensor.name: tensor.shape for tensor in tensors} == parameter_shapes(shape)
    assert decoder.num_parameters() == sum(tensor.numel for tensor in tensors)
