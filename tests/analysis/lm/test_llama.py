from labcode.experiments.lm.llama import expected as llama

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


def predicted(**more):
    way = {"attention": "eager", "optimizer": "foreach", "compiled": False, "recomputed": 32}
    return llama.predicted_step(LARGE, llama.DOCUMENTS, **(way | more))


def test_each_change_is_predicted_to_move_its_own_part():
    before = predicted()
    for change, part in (
        ({"attention": "flex_attention"}, "attention"),
        ({"optimizer": "fused"}, "optimizer"),
        ({"compiled": True}, "elementwise"),
    ):
        after = predicted(**change)
        assert [name for name in before if after[name] != before[name]] == [part]
        assert after[part] < before[part]
    assert predicted(recomputed=0)["matmuls"] < before["matmuls"]
    assert predicted(recomputed=1 << 30) == before


def test_the_optimizer_is_predicted_by_its_bytes():
    assert abs(predicted(optimizer="fused")["optimizer"] - 14 * 8_030_261_248 / 3.0e12 * 1e3) < 1e-6


def test_gradients_of_half_the_bytes_take_half_the_time_on_the_way():
    wide, narrow = (llama.predicted_exchange(LARGE, reduce_bytes=bytes_) for bytes_ in (4, 2))
    assert wide["reduce"] == 2 * narrow["reduce"] and wide["gather"] == narrow["gather"]
    assert llama.predicted_exchange(LARGE, reduce_bytes=2, engines=True)["slowed"] < narrow["slowed"]
    assert llama.predicted_exchange(LARGE, reduce_bytes=2, stay=32)["gather"] < narrow["gather"]
