//! Kernels for several widths of their tiles: each width multiplies as a kernel of that width does.

use colex_atom::{Arch, Ty};
use colex_gpu::kernels::Major;
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
use colex_gpu::{Device, Gemm};
use half::bf16;
