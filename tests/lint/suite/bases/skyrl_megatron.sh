uv run --isolated --extra fsdp -m skyrl.train.fully_async \
  trainer.strategy=megatron \
  trainer.algorithm.advantage_estimator="grpo" \
  trainer.placement.colocate_all=false \
  trainer.placement.policy_num_nodes=1 \
  trainer.placement.policy_num_gpus_per_node=8 \
  trainer.policy.megatron_config.tensor_model_parallel_size=2 \
  trainer.policy.megatron_config.pipeline_model_parallel_size=1 \
  trainer.policy.megatron_config.context_parallel_size=1 \
  trainer.remove_microbatch_padding=true \
  trainer.train_batch_size=256 \
  trainer.policy_mini_batch_size=256 \
  trainer.micro_train_batch_size_per_gpu=4 \
  trainer.fully_async.max_staleness_steps=4 \
  trainer.fully_async.num_parallel_generation_workers=768 \
  generator.n_samples_per_prompt=8 \
  generator.inference_engine.num_engines=4 \
  generator.inference_engine.tensor_parallel_size=2
