"""What runs inside vLLM's worker processes: it reports which modules take an adapter's weights.

vLLM drops adapter weights that it cannot place and only logs it.
"""

from typing import Any


class AdapterReport:
    """Mixed into vLLM's worker class, whose attributes `model_runner` has (engine argument worker_extension_cls)."""

    model_runner: Any

    def modules_that_take_adapters(self) -> list[str]:
        """Names of the model's modules; joined projections (q, k and v in one) by the names of their parts."""
        manager = self.model_runner.lora_manager._adapter_manager
        names: list[str] = []
        for name in manager.modules:
            names.extend(manager.packed_modules.get(name) or [name])
        return names
