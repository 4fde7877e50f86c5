//! The kernels that the page steps: those of the book's chapters, with the planted mistakes as arguments.
//!
//! The page shows this file beside the PTX, so that the lines are those that the simulator names.

use colex_atom::{Arch, Ty};
use colex_ir::{
    Access, Cache, Compare, CopyArgs, End, FenceKind, Kernel, KernelBuilder, Order, Space, Special,
    Type,
};
use colex_tensor::{AtThread, Builder, TensorKernel};
use colex_tiled::TiledCopy;

/// The text of this file.
pub(crate) const SOURCE: &str = include_str!("kernels.rs");

const SHARED: Access = Access {
    space: Space::Shared,
    ty: Type::U32,
    cache: Cache::Default,
    order: Order::Weak,
    policy: None,
};

/// y = a x + y, one element per thread.
pub(crate) fn axpy(target: Arch, bound: Compare) -> Kernel {
    let mut k = KernelBuilder::new("axpy", target);
    let (x, y) = (k.pointer("x"), k.pointer("y"));
    let (a, n) = (k.scalar("a", Type::F32), k.scalar("n", Type::U32));
    let (x, y, a, n) = (k.param(x), k.param(y), k.param(a), k.param(n));
    let block = k.mov(Type::U32, Special::Ctaid(0));
    let threads = k.mov(Type::U32, Special::NTid(0));
    let thread = k.mov(Type::U32, Special::Tid(0));
    let i = k.mad(Type::U32, block, threads, thread);
    let inside = k.setp(bound, Type::U32, i, n);
    k.if_(inside, |k| {
        let offset = k.mul_wide(Type::U32, i, 4);
        let (x, y) = (k.add(Type::S64, x, offset), k.add(Type::S64, y, offset));
        let access = Access::new(Space::Global, Type::F32);
        let (x_i, y_i) = (k.load(access, x), k.load(access, y));
        let sum = k.mad(Type::F32, a, x_i, y_i);
        k.store(access, y, sum);
    });
    k.finish()
}

/// Two warps write their halves of a tile, and each reads the other's half.
pub(crate) fn exchange(target: Arch, meets: bool) -> Kernel {
    let mut k = KernelBuilder::new("exchange", target);
    let tile = k.shared("tile", 256, 256);
    let base = k.address_of(tile);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let mine = k.mad(Type::U32, thread, 4, base);
    k.store(SHARED, mine, 0);
    k.sync();
    k.store(SHARED, mine, thread);
    if meets {
        k.sync();
    }
    let theirs = k.xor(Type::B32, mine, 128);
    k.load(SHARED, theirs);
    k.finish()
}

/// Copies a tile to global memory with the asynchronous proxy, after the generic proxy has written it.
pub(crate) fn bulk(target: Arch, fences: bool) -> Result<Kernel, colex_atom::Error> {
    let bulk = colex_atom::copy("SM90_BULK_COPY_S2G")?;
    let mut k = KernelBuilder::new("bulk", target);
    let data = k.pointer("data");
    let data = k.param(data);
    let tile = k.shared("tile", 128, 128);
    let base = k.address_of(tile);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let mine = k.mad(Type::U32, thread, 4, base);
    k.store(SHARED, mine, thread);
    if fences {
        k.fence(FenceKind::ProxyAsyncShared);
    }
    k.sync();
    let first = k.setp(Compare::Eq, Type::U32, thread, 0);
    k.if_(first, |k| {
        let args = CopyArgs {
            dst: End::Memory(data.into()),
            src: End::Memory(tile.into()),
            size: Some(128.into()),
            ..CopyArgs::default()
        };
        k.copy_atom(&bulk, args);
        k.bulk_commit();
        k.bulk_wait(0, false);
    });
    Ok(k.finish())
}

/// Transposes tiles of 32 by 32, which lie in shared memory under the layout `shared`.
pub(crate) fn transpose(shared: &str, meets: bool) -> Result<TensorKernel, colex_tensor::Error> {
    let mut k = Builder::new("transpose", Arch::Sm80, 256);
    let from = k.tensor("from", Ty::F32, "(1,1):(1,_1)");
    let to = k.tensor("to", Ty::F32, "(1,1):(_1,1)");
    let place = [k.block_index(0), k.block_index(1)];
    let from = from.local_tile((32, 32), &place); // (BLK_M, BLK_N)
    let to = to.local_tile((32, 32), &place); // (BLK_M, BLK_N)
    let tile = k.shared_tensor(Ty::F32, shared);
    let (word, one) = (colex_atom::copy("UniversalCopy<uint32_t>")?, "(1,1):(1,1)");
    let by_row = TiledCopy::new(word.clone(), 32, "(8,32):(32,1)", one)?;
    let by_column = TiledCopy::new(word, 32, "(32,8):(1,32)", one)?;
    let thread = k.thread();
    let mine = by_row.at(&thread);
    let src = mine.partition_src(&from); // (CPY, CPY_M, CPY_N)
    let dst = mine.partition_dst(&tile); // (CPY, CPY_M, CPY_N)
    let regs = k.fragment_like(&src);
    k.copy(&by_row, &src, &regs);
    k.copy(&by_row, &regs, &dst);
    if meets {
        k.sync();
    }
    let mine = by_column.at(&thread);
    let src = mine.partition_src(&tile); // (CPY, CPY_M, CPY_N)
    let dst = mine.partition_dst(&to); // (CPY, CPY_M, CPY_N)
    let regs = k.fragment_like(&src);
    k.copy(&by_column, &src, &regs);
    k.copy(&by_column, &regs, &dst);
    k.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A book's program without the marks of its pieces.
    fn program(text: &str) -> String {
        let lines = text.lines().filter(|line| !line.contains("// ANCHOR"));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The lines of a function of this file without its signature.
    fn body(name: &str) -> String {
        let start = SOURCE.find(&format!("fn {name}(")).expect("it is here");
        let text = &SOURCE[start..];
        let end = text.find("\n}").expect("it ends");
        let (_, body) = text[..end].split_once('\n').expect("it has lines");
        body.to_string()
    }

    #[test]
    fn the_kernels_are_those_of_the_chapters() {
        let first = program(include_str!("../../examples/kernel/first.rs"));
        for (bound, name) in [("Lt", "axpy"), ("Le", "axpy_too_far")] {
            let of_book = first
                .split(&format!("fn {name}("))
                .nth(1)
                .expect("it is there");
            let body = body("axpy").replace("setp(bound,", &format!("setp(Compare::{bound},"));
            assert!(of_book.contains(&body), "{body}");
        }
        let book = program(include_str!("../../examples/kernel/transpose.rs"));
        let met = "    if meets {\n        k.sync();\n    }";
        let body = body("transpose").replace(met, "    k.sync();");
        assert!(book.contains(&body), "{body}");
    }

    /// The chapter on the simulator has the other kernels inside of calls, so that its lines are further in.
    #[test]
    fn the_mistakes_are_those_of_the_chapter() {
        let book = program(include_str!("../../examples/kernel/simulator.rs"));
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let book = words(&book);
        let piece = |name: &str, from: &str, to: &str| {
            let body = words(&body(name));
            let start = body.find(from).expect("it begins there");
            let end = body.find(to).expect("it ends there") + to.len();
            body[start..end].to_string()
        };
        let shared = piece("exchange", "let tile", "k.store(SHARED, mine, thread);");
        assert!(book.contains(&shared), "{shared}");
        let copied = piece("bulk", "let first", "k.bulk_wait(0, false); });");
        assert!(book.contains(&copied), "{copied}");
    }
}
