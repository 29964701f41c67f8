"""Lightning's Trainer with its DDP strategy."""

import warnings

warnings.filterwarnings("ignore")

import lightning
import torch
from common import OUT, STEPS, WORLD, checksum, data, model, report


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.losses = model(), []

    def training_step(self, batch, _):
        loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


lightning.seed_everything(7)
module = Module()
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=WORLD,
    strategy="ddp",
    max_steps=STEPS,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    default_root_dir=str(OUT),
)
trainer.fit(module, torch.utils.data.DataLoader(data(), batch_size=4))
report(
    losses=module.losses,
    weights=checksum(module.net.state_dict()),
    processes=trainer.world_size,
    environment_class=type(trainer.strategy.cluster_environment).__name__,
)
