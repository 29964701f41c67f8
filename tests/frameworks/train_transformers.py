"""The Trainer of Hugging Face Transformers, with a model made of a configuration."""

import os

os.environ.update(HF_HUB_OFFLINE="1", WANDB_DISABLED="true", TOKENIZERS_PARALLELISM="false")

import torch
from common import OUT, STEPS, checksum, report, seed
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

seed()
net = GPT2LMHeadModel(
    GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
)
tokens = torch.randint(0, 64, (64, 16), generator=torch.Generator().manual_seed(5))
trainer = Trainer(
    net,
    TrainingArguments(
        output_dir=str(OUT / "trainer"),
        use_cpu=True,
        max_steps=STEPS,
        logging_steps=1,
        seed=7,
        per_device_train_batch_size=4,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    ),
    train_dataset=[{"input_ids": line, "labels": line} for line in tokens],
)
result = trainer.train()
report(
    loss=result.training_loss,
    steps=result.global_step,
    weights=checksum(net.state_dict()),
    losses=[entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
    processes=trainer.args.world_size,
)
