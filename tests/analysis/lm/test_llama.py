from labcode.analysis.lm import llama

LARGE = llama.CONFIGS["8B"]


def test_parameters_are_those_that_meta_published():
    assert llama.parameter_count(LARGE) == 8_030_261_248
    assert llama.parameter_count(LARGE) - llama.read_for_a_token(LARGE) == 128_256 * 4096


def test_flops_of_two_tokens_by_hand():
    config = llama.Config(width=4, inner=6, layers=2, heads=2, kv_heads=1, vocabulary=10)
    layer = 2 * 4 * 4 + 2 * 4 * 2 + 3 * 4 * 6 + 2 * 4
    assert llama.layer_parameters(config) == layer
    read = 2 * layer + 4 + 10 * 4
    scores_and_values = 2 * 2 * 4 * 3 * 2  # two matmuls, a layer twice, 4 wide, 3 pairs of positions
    assert llama.forward_flops(config, [2]) == 2 * 2 * read + scores_and_values
    assert llama.training_flops(config, [2]) == 3 * llama.forward_flops(config, [2])


def test_attention_counts_no_pairs_of_different_documents():
    apart, together = (llama.forward_flops(LARGE, lengths) for lengths in ([512, 512], [1024]))
    assert together - apart == 4 * LARGE.layers * LARGE.width * 512 * 512


def test_the_packed_documents_fill_a_sequence():
    assert sum(llama.DOCUMENTS) == 4096


def test_cache_of_a_token():
    assert llama.cache_bytes(LARGE, 1) == 128 * 1024
    assert llama.logits_bytes(LARGE, 1, itemsize=2) == 256_512
