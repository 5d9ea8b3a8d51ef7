"""The layers of the codec. Each one hears a take in pieces and gives what it would give for the whole.

Everything here is causal and time-major: activations are [positions, channels] float32, so that
channels lie side by side in memory, a 1x1 convolution is one matrix product, and an upsampling by s
is a product with s times as many columns, seen again as s times as many rows. Measured on one CPU
core against channel-major `conv1d` and `conv_transpose1d`: equal or faster at every layer and chunk
size, and up to 6 times faster (the transposed ones, for single frames).

What a layer must remember between two pieces (the last inputs of a convolution, the last keys and
values of a transformer) is its *carry*. Carries live outside the layers, in a `Carries` mapping that
belongs to one take, are allocated when the take begins and only written in place. A fresh carry
is silence: zeros, as if the sound had been preceded by padding.

The traps (Drama 3 notes, section 9.1): rope angles are rounded to bfloat16; key j is visible to
query i if i - window < j <= i; GELU is the exact one; weight norm runs over all dims but the first,
which for transposed convolutions is the *input* channel.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from functools import cached_property
from types import ModuleType

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.drama3.codec_config import TransformerConfig
from engine.drama3.compiled import codec_kernels, compiled_loops

Trace = MutableMapping[str, Tensor]
SNAKE_WIDTH = 512
TILE_COLUMNS = 16  # of `loops.tiles`
NORM_EPS = 1e-6
NOTHING = np.empty(0, np.float32)

Panels = tuple[np.ndarray, int, int]  # of `in_panels`, taps, numbers from one tap to the next


class Tensors:
    """The tensors of a codec file by name; each read checks presence and shape, and frees the entry."""

    def __init__(self, tensors: Mapping[str, Tensor], source: str) -> None:
        self.tensors, self.source = dict(tensors), source

    def take(self, name: str, *shape: int | None) -> Tensor:
        """Tensor `name` as float32; None in `shape` fits any size. Raises ValueError naming the key."""
        if name not in self.tensors:
            raise ValueError(f"{self.source}: tensor {name} is missing.")
        tensor = self.tensors.pop(name)
        if tensor.dim() != len(shape) or any(
            want not in (None, size) for want, size in zip(shape, tensor.shape, strict=True)
        ):
            raise ValueError(
                f"{self.source}: tensor {name} has shape {list(tensor.shape)}, expected {list(shape)}."
            )
        return tensor.float()

    def weight(self, name: str, *shape: int) -> Tensor:
        """Weight `name` float32 with weight norm folded in: g * v / |v|, |v| over all dims but 0.

        Both spellings of weight norm are understood, and a plain weight is taken as it is.
        """
        for gain, direction in (
            (f"{name}.parametrizations.weight.original0", f"{name}.parametrizations.weight.original1"),
            (f"{name}.weight_g", f"{name}.weight_v"),
        ):
            if gain in self.tensors or direction in self.tensors:
                v = self.take(direction, *shape)
                g = self.take(gain, shape[0], *(1 for _ in shape[1:]))
                return v * (g / v.flatten(1).norm(dim=1).view_as(g))
        return self.take(f"{name}.weight", *shape)


class Ring:
    """The last keys and values of a transformer, and the take's position.

    Position p lives in slot p % slots. With window + block - 1 slots, `block` new positions can be
    written before they are read, and every key they may see is still there.
    """

    def __init__(self, keys: Tensor, values: Tensor, position: Tensor) -> None:
        self.keys = keys  # [layers, heads, slots, head_dim], rotated
        self.values = values
        self.position = position  # [] int64, positions of this take heard so far; never wraps

    def clone(self) -> Ring:
        return Ring(self.keys.clone(), self.values.clone(), self.position.clone())

    def zero_(self) -> None:
        """Silence again, in place."""
        for buffer in (self.keys, self.values, self.position):
            buffer.zero_()


Carries = dict[nn.Module, "Tensor | Ring"]


def fresh_carries(root: nn.Module, block_frames: int) -> Carries:
    """Carries for every layer below `root`, for pieces of at most `block_frames` code frames."""
    # Ordinary tensors, also for a caller in inference mode: a take may go on outside of it.
    with torch.inference_mode(False):
        return {
            layer: layer.fresh_carry(block_frames)
            for layer in root.modules()
            if isinstance(layer, CausalLayer | WindowTransformer)
        }


def note(trace: Trace | None, name: str, rows: Tensor) -> None:
    """Append rows [positions, channels] to trace[name] [channels, positions] float32, if anyone listens."""
    if trace is not None:
        columns = rows.t().float()
        trace[name] = torch.cat((trace[name], columns), 1) if name in trace else columns


def loops_for(x: Tensor) -> ModuleType | None:
    """The compiled loops, if they take an x like this. They work on the thread that calls them; the threads
    of torch wait for each other after every operation, and so for the core that has the steps.
    """
    return compiled_loops()[0] if x.device.type == "cpu" and x.dtype == torch.float32 else None


def kernels_for(x: Tensor) -> ModuleType | None:
    """The codec's kernels, if they take an x like this."""
    return codec_kernels(x.device) if x.device.type == "cuda" and x.dtype == torch.float32 else None


def in_panels(weight: Tensor, bias: Tensor | None = None) -> np.ndarray:
    """A matrix [inputs, outputs] as `loops.tiles` reads it: [outputs / 16, 1 + inputs, 16], the bias first,
    zeros behind the last output.
    """
    bias = weight.new_zeros(weight.shape[1]) if bias is None else bias
    lines = torch.cat((bias[None], weight)).float()
    lines = F.pad(lines, (0, -lines.shape[1] % TILE_COLUMNS))
    return lines.view(len(lines), -1, TILE_COLUMNS).transpose(0, 1).contiguous().numpy()


class Snake(nn.Module):
    """x + sin^2(a x) / (a + 1e-9), one a per channel, of rows [n, channels].

    The compiled loops have it within the convolution that hears it, the kernels where its carry joins.
    """

    def __init__(self, tensors: Tensors, name: str, channels: int) -> None:
        super().__init__()
        alpha = tensors.take(f"{name}.alpha", 1, channels, 1).reshape(channels)
        self.register_buffer("alpha", alpha)
        self.register_buffer("scale", 1 / (alpha + 1e-9))

    def forward(self, x: Tensor) -> Tensor:
        sine = (x * self.alpha).sin_()
        return torch.addcmul(x, sine.mul_(sine), self.scale)

    @property
    def parts(self) -> tuple[Tensor, Tensor]:
        """As the kernels take it."""
        return self.alpha, self.scale

    @cached_property
    def tiled(self) -> tuple[np.ndarray, np.ndarray]:
        """`alpha` and `scale` as the loops take them: side by side, so that a loop is long where the channels
        are few.
        """
        times = -(-SNAKE_WIDTH // len(self.alpha))
        return self.alpha.repeat(times).numpy(), self.scale.repeat(times).numpy()


def pointwise(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A 1x1 convolution: [positions, in] by weight [in, out] -> [positions, out]."""
    return torch.addmm(bias, x, weight)


def convolved(
    loops: ModuleType,
    x: Tensor,
    panels: Panels,
    columns: int,
    stride: int = 1,
    held: np.ndarray = NOTHING,
    snake: Snake | None = None,
) -> Tensor:
    """[n / stride, columns] of rows x [n, inputs] by `loops.convolve_rows`; `held` [left inputs] moves on."""
    y = x.new_empty(len(x) // stride, columns)
    heard = snake.tiled if snake else (NOTHING, NOTHING)
    flat, whole = x.reshape(-1).numpy(), y.view(-1).numpy()
    loops.convolve_rows(flat, held, x.shape[1], *heard, *panels, stride, whole, columns)
    return y


class CausalLayer(nn.Module):
    """A convolution whose carry is its last `left` inputs [left, inputs].

    It may hear its inputs through a snake, which by loops or kernels spares passes over memory.
    """

    bias: Tensor
    panels: Panels
    taps: Tensor  # the weight as [taps, inputs, columns], the oldest first
    stride = dilation = 1

    def __init__(self, inputs: int, left: int) -> None:
        super().__init__()
        self.inputs, self.left = inputs, left

    def fresh_carry(self, block_frames: int) -> Tensor:
        return self.bias.new_zeros(self.left, self.inputs)

    def after_carry(self, x: Tensor, carries: Carries) -> Tensor:
        """The carried inputs, then x [n, inputs]: [left + n, inputs]; the carry moves on by n."""
        if not self.left:
            return x
        held = carries[self]
        x = torch.cat((held, x))
        held.copy_(x[-self.left :])
        return x

    def looped(self, loops: ModuleType, x: Tensor, carries: Carries, snake: Snake | None) -> Tensor:
        """`forward` by the compiled loop, [n / stride, columns]; the carry moves on."""
        held = carries[self].view(-1).numpy()
        return convolved(loops, x, self.panels, len(self.bias), self.stride, held, snake)

    def launched(
        self,
        kernels: ModuleType,
        x: Tensor,
        carries: Carries,
        snake: Snake | None,
        last_snake: Snake | None = None,
    ) -> Tensor:
        """`forward` by the kernels, [n / stride, columns], behind a second snake if one is given."""
        if self.left or snake:
            x = kernels.heard(x, carries[self], snake and snake.parts)
        last = last_snake and last_snake.parts
        return kernels.convolve(x, self.taps, self.bias, self.stride, self.dilation, last)


class CausalConv(CausalLayer):
    """Causal convolution of kernel k: [n, in] -> [n / stride, out], n a multiple of the stride.

    Left padding (k-1) * dilation + 1 - stride, as in the Drama 3 notes, section 9.1.
    """

    def __init__(
        self,
        tensors: Tensors,
        name: str,
        channels: tuple[int, int],
        kernel: int,
        stride: int = 1,
        dilation: int = 1,
    ) -> None:
        inputs, outputs = channels
        super().__init__(inputs, (kernel - 1) * dilation + 1 - stride)
        self.kernel, self.stride, self.dilation = kernel, stride, dilation
        weight = tensors.weight(f"{name}.conv", outputs, inputs, kernel)
        weight = weight.unsqueeze(2).contiguous(memory_format=torch.channels_last)
        self.register_buffer("weight", weight)  # [out, in, 1, kernel]
        self.register_buffer("bias", tensors.take(f"{name}.conv.bias", outputs))

    def forward(self, x: Tensor, carries: Carries, snake: Snake | None = None) -> Tensor:
        if loops := loops_for(x):
            return self.looped(loops, x, carries, snake)
        if self.inputs > 1 and (kernels := kernels_for(x)):
            return self.launched(kernels, x, carries, snake)
        x = self.after_carry(x if snake is None else snake(x), carries)
        if self.inputs == 1:
            # One channel has no rows to multiply, but its windows side by side do (2.4 times faster).
            return pointwise(x[:, 0].unfold(0, self.kernel, self.stride), self.weight[:, 0, 0].t(), self.bias)
        image = x.view(1, 1, *x.shape).permute(0, 3, 1, 2)  # [1, in, 1, n], channels innermost: no copy
        y = F.conv2d(image, self.weight, self.bias, stride=(1, self.stride), dilation=(1, self.dilation))
        return y.permute(0, 2, 3, 1).reshape(-1, self.weight.shape[0])

    @property
    def taps(self) -> Tensor:
        return self.weight[:, :, 0].permute(2, 1, 0)

    @cached_property
    def panels(self) -> Panels:
        weight = self.taps.flatten(0, 1)  # [kernel * in, out]
        taps, step = (1, 0) if self.dilation == 1 else (self.kernel, self.dilation * self.inputs)
        return in_panels(weight, self.bias), taps, step


class DepthwiseConv(CausalLayer):
    """Causal convolution of each channel with its own kernel k: [n, channels] -> [n, channels]."""

    def __init__(self, tensors: Tensors, name: str, channels: int, kernel: int) -> None:
        super().__init__(channels, kernel - 1)
        self.register_buffer("weight", tensors.weight(f"{name}.conv", channels, 1, kernel)[:, 0])
        self.register_buffer("bias", tensors.take(f"{name}.conv.bias", channels))

    def forward(self, x: Tensor, carries: Carries) -> Tensor:
        count, x = len(x), self.after_carry(x, carries)
        if loops := loops_for(x):
            y = x.new_empty(count, self.inputs)
            loops.convolve_each(x.numpy(), self.columns, self.bias.numpy(), y.numpy())
            return y
        windows = x.unfold(0, self.weight.shape[1], 1)  # [n, channels, kernel]
        return (windows * self.weight).sum(-1).add_(self.bias)

    @cached_property
    def columns(self) -> np.ndarray:
        return self.weight.t().contiguous().numpy()


class UpConv(CausalLayer):
    """Causal transposed convolution, kernel a multiple of its stride s: [n, in] -> [n * s, out].

    Output s*t + j is the sum over taps i of x[t-i] @ W[:, :, i*s + j]: one matrix product a tap, its
    columns being the s outputs of a position. So the carry is the last kernel / s - 1 *inputs*; the
    overlap of two pieces needs no adding, and the last kernel - s outputs of the ordinary transposed
    convolution, which the causal one drops, are never computed.
    """

    def __init__(
        self, tensors: Tensors, name: str, channels: tuple[int, int], kernel: int, stride: int
    ) -> None:
        inputs, outputs = channels
        taps = kernel // stride
        super().__init__(inputs, taps - 1)
        self.outputs = outputs
        weight = tensors.weight(f"{name}.conv", inputs, outputs, kernel)
        weight = weight.view(inputs, outputs, taps, stride).flip(2).permute(3, 1, 2, 0)
        # The inputs side by side, as the kernels read fastest; matrix products take them either way.
        self.register_buffer("taps", weight.reshape(stride * outputs, taps, inputs).permute(1, 2, 0))
        self.register_buffer("bias", tensors.take(f"{name}.conv.bias", self.outputs).repeat(stride))

    def forward(self, x: Tensor, carries: Carries, snake: Snake | None = None) -> Tensor:
        if loops := loops_for(x):
            return self.looped(loops, x, carries, snake).view(-1, self.outputs)
        if kernels := kernels_for(x):
            return self.launched(kernels, x, carries, snake).view(-1, self.outputs)
        count, dtype = len(x), x.dtype
        x = self.after_carry((x if snake is None else snake(x)).to(self.taps.dtype), carries)
        y = pointwise(x[:count], self.taps[0], self.bias)
        for tap in range(1, len(self.taps)):
            y.addmm_(x[tap:][:count], self.taps[tap])
        return y.view(-1, self.outputs).to(dtype)

    @cached_property
    def panels(self) -> Panels:
        return in_panels(self.taps.flatten(0, 1), self.bias), 1, 0


class ResidualUnit(nn.Module):
    """snake -> dilated convolution of kernel 7 -> snake -> 1x1 convolution, plus the input."""

    def __init__(self, tensors: Tensors, name: str, channels: int, dilation: int) -> None:
        super().__init__()
        self.snake = Snake(tensors, f"{name}.block.0", channels)
        self.conv = CausalConv(tensors, f"{name}.block.1", (channels, channels), 7, dilation=dilation)
        self.last_snake = Snake(tensors, f"{name}.block.2", channels)
        weight = tensors.weight(f"{name}.block.3.conv", channels, channels, 1)
        self.register_buffer("last_weight", weight[..., 0].t())  # [in, out], the inputs side by side
        self.register_buffer("last_bias", tensors.take(f"{name}.block.3.conv.bias", channels))

    def forward(self, x: Tensor, carries: Carries) -> Tensor:
        """Rows [n, channels] -> [n, channels]; x may be overwritten."""
        if loops := loops_for(x):
            held = carries[self.conv].view(-1).numpy()
            loops.residual_unit(x.view(-1).numpy(), held, x.shape[1], *self.looped)
            return x
        if kernels := kernels_for(x):
            y = self.conv.launched(kernels, x, carries, self.snake, self.last_snake)
            return kernels.convolve(y, self.last_weight[None], self.last_bias, rest=x)
        y = self.last_snake(self.conv(self.snake(x), carries))
        return pointwise(y, self.last_weight, self.last_bias).add_(x)

    @cached_property
    def looped(self) -> tuple[np.ndarray | int, ...]:
        """As `loops.residual_unit` takes it."""
        last = in_panels(self.last_weight, self.last_bias)
        return *self.snake.tiled, *self.conv.panels, *self.last_snake.tiled, last


class ConvNeXt(nn.Module):
    """Depthwise convolution of kernel 7 -> LayerNorm -> two linears around a GELU, plus the input."""

    def __init__(self, tensors: Tensors, name: str, channels: int) -> None:
        super().__init__()
        self.conv = DepthwiseConv(tensors, f"{name}.dwconv", channels, 7)
        self.register_buffer("norm_weight", tensors.take(f"{name}.norm.weight", channels))
        self.register_buffer("norm_bias", tensors.take(f"{name}.norm.bias", channels))
        up = tensors.take(f"{name}.pwconv1.weight", None, channels)
        self.register_buffer("up_weight", up)
        self.register_buffer("up_bias", tensors.take(f"{name}.pwconv1.bias", len(up)))
        gamma = tensors.take(f"{name}.gamma", channels)
        down = tensors.take(f"{name}.pwconv2.weight", channels, len(up))
        self.register_buffer("down_weight", gamma[:, None] * down)
        self.register_buffer("down_bias", gamma * tensors.take(f"{name}.pwconv2.bias", channels))

    def forward(self, x: Tensor, carries: Carries) -> Tensor:
        y = self.conv(x, carries)
        if loops := loops_for(x):
            z, norm = torch.empty_like(x), (self.norm_weight.numpy(), self.norm_bias.numpy(), NORM_EPS)
            rows, rest, out = (each.view(-1).numpy() for each in (y, x, z))
            loops.feed(rows, x.shape[1], *norm, *self.panels, rest, out)
            return z
        y = F.layer_norm(y, y.shape[1:], self.norm_weight, self.norm_bias, NORM_EPS)
        y = F.gelu(F.linear(y, self.up_weight, self.up_bias))
        return F.linear(y, self.down_weight, self.down_bias).add_(x)

    @cached_property
    def panels(self) -> tuple[np.ndarray, np.ndarray]:
        return in_panels(self.up_weight.t(), self.up_bias), in_panels(self.down_weight.t(), self.down_bias)


def rope(positions: Tensor, head_dim: int, base: float) -> tuple[Tensor, Tensor]:
    """cos and sin [positions, 1, head_dim / 2] float32, rounded to bfloat16 as in the reference.

    Computed on demand: there is no table to run out of. The rounding is worth 2e-3 of the waveform.
    """
    exponents = torch.arange(0, head_dim, 2, device=positions.device).float() / head_dim
    angles = torch.outer(positions.float(), 1.0 / base**exponents).unsqueeze(1)
    return angles.cos().bfloat16().float(), angles.sin().bfloat16().float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Interleaved rotary embedding of x [positions, heads, head_dim]: pairs are (2i, 2i+1)."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)


def attend(query: Tensor, keys: Tensor, values: Tensor, visible: Tensor) -> Tensor:
    """Attention of [heads, n, head_dim]; on a CPU in float64, for the reason of `codec.latent_dtype`."""
    dtype = torch.float64 if query.device.type == "cpu" else query.dtype
    heads = (part.to(dtype)[None] for part in (query, keys, values))
    return F.scaled_dot_product_attention(*heads, attn_mask=visible)[0].to(query.dtype)


class TransformerLayer(nn.Module):
    """Pre-norm attention and SwiGLU; the layer scales are folded into `wo` and `w2` at load."""

    def __init__(self, tensors: Tensors, name: str, width: int, config: TransformerConfig) -> None:
        super().__init__()
        self.head_dim, self.eps = config.head_dim, config.norm_eps
        self.heads = config.n_head or width // config.head_dim
        inner = self.heads * self.head_dim
        self.register_buffer("wqkv", tensors.take(f"{name}.attention.wqkv.weight", 3 * inner, width))
        wo = tensors.take(f"{name}.attention.wo.weight", width, inner)
        gamma = tensors.take(f"{name}.attention_layer_scale.gamma", width)
        self.register_buffer("wo", gamma[:, None] * wo)
        w1 = tensors.take(f"{name}.feed_forward.w1.weight", config.intermediate_size, width)
        w3 = tensors.take(f"{name}.feed_forward.w3.weight", len(w1), width)
        self.register_buffer("w13", torch.cat((w1, w3)))
        w2 = tensors.take(f"{name}.feed_forward.w2.weight", width, len(w1))
        gamma = tensors.take(f"{name}.ffn_layer_scale.gamma", width)
        self.register_buffer("w2", gamma[:, None] * w2)
        self.register_buffer("attention_norm", tensors.take(f"{name}.attention_norm.weight", width))
        self.register_buffer("ffn_norm", tensors.take(f"{name}.ffn_norm.weight", width))

    def forward(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        slots: Tensor,
        visible: Tensor,
        keys: Tensor,
        values: Tensor,
    ) -> Tensor:
        """Rows [n, width] -> [n, width]; their keys and values are written to `slots` of the ring first."""
        h = F.rms_norm(x, x.shape[1:], self.attention_norm, self.eps)
        query, key, value = F.linear(h, self.wqkv).view(len(x), 3, self.heads, self.head_dim).unbind(1)
        keys.index_copy_(1, slots, rotate(key, *angles).transpose(0, 1))
        values.index_copy_(1, slots, value.transpose(0, 1))
        query = rotate(query, *angles).transpose(0, 1)
        y = attend(query, keys, values, visible)
        x = x + F.linear(y.transpose(0, 1).flatten(1), self.wo)
        gate, up = F.linear(F.rms_norm(x, x.shape[1:], self.ffn_norm, self.eps), self.w13).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, self.w2)

    @cached_property
    def panels(self) -> tuple[np.ndarray, ...]:
        """As `loops.look_and_feed` takes them."""
        qkv, out, gate_up, down = (in_panels(each.t()) for each in (self.wqkv, self.wo, self.w13, self.w2))
        return self.attention_norm.numpy(), qkv, out, self.ffn_norm.numpy(), gate_up, down


class WindowTransformer(nn.Module):
    """Causal attention over the last `window_size` positions; positions are absolute within the take."""

    def __init__(
        self,
        tensors: Tensors,
        name: str,
        width: int,
        layers: int,
        config: TransformerConfig,
        positions_per_frame: int,
    ) -> None:
        super().__init__()
        self.config, self.positions_per_frame = config, positions_per_frame
        self.layers = nn.ModuleList(
            TransformerLayer(tensors, f"{name}.layers.{i}", width, config) for i in range(layers)
        )
        self.register_buffer("norm", tensors.take(f"{name}.norm.weight", width))

    def fresh_carry(self, block_frames: int) -> Ring:
        slots = self.config.window_size - 1 + block_frames * self.positions_per_frame
        shape = (len(self.layers), self.layers[0].heads, slots, self.config.head_dim)
        position = torch.zeros((), dtype=torch.int64, device=self.norm.device)
        return Ring(self.norm.new_zeros(shape), self.norm.new_zeros(shape), position)

    def forward(self, x: Tensor, carries: Carries) -> Tensor:
        """Rows [n, width] -> [n, width], n at most the block the carry was made for."""
        ring = carries[self]
        if loops := loops_for(x):
            x = self._looped(loops, x, ring)
            return F.rms_norm(x, x.shape[1:], self.norm, self.config.norm_eps)
        num_slots = ring.keys.shape[2]
        positions = ring.position + torch.arange(len(x), device=x.device)
        newest = positions[-1]
        # The position each slot holds once this piece is written; negative: nothing yet.
        held = newest - (newest - torch.arange(num_slots, device=x.device)) % num_slots
        age = positions[:, None] - held
        visible = (held >= 0) & (age >= 0) & (age < self.config.window_size)  # [n, slots]
        angles = rope(positions, self.config.head_dim, self.config.rope_base)
        slots = positions % num_slots
        for layer, keys, values in zip(self.layers, ring.keys, ring.values, strict=True):
            x = layer(x, angles, slots, visible, keys, values)
        ring.position += len(slots)
        return F.rms_norm(x, x.shape[1:], self.norm, self.config.norm_eps)

    def _looped(self, loops: ModuleType, x: Tensor, ring: Ring) -> Tensor:
        """`forward` but for its norm."""
        start = int(ring.position)
        angles = rope(torch.arange(start, start + len(x)), self.config.head_dim, self.config.rope_base)
        cos, sin = (each[:, 0].numpy() for each in angles)
        where = start, self.config.window_size, cos, sin
        x = x.clone()
        for layer, keys, values in zip(self.layers, ring.keys.numpy(), ring.values.numpy(), strict=True):
            loops.look_and_feed(x.view(-1).numpy(), *where, keys, values, *layer.panels, layer.eps)
        ring.position += len(x)
        return x
