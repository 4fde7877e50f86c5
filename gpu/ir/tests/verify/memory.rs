//! Addresses, vectors, alignment, bounds, cache hints, orders.

use colex_atom::Arch;
use colex_ir::{
    Access, Address, Base, Cache, KernelBuilder, Memory, Order, RegType, Scope, Space, Type,
};

use super::{refused, thread};

const SHARED: Access = Access {
    space: Space::Shared,
    ty: Type::F32,
    cache: Cache::Default,
    order: Order::Weak,
    policy: None,
};

#[test]
fn addresses() {
    refused(
        Arch::Sm80,
        "`ld.global.f32` cannot take the address [%r0]: it takes a register of class b64",
        |k| {
            let r = thread(k);
            k.load(Access::new(Space::Global, Type::F32), r);
        },
    );
    refused(
        Arch::Sm80,
        "`ld.shared.f32` cannot take the address [%rd0+4]: it takes a register of class b32 or a shared variable",
        |k| {
            let data = k.pointer("data");
            let address = k.param(data);
            k.load(SHARED, Address::from(address).at(4));
        },
    );
    refused(
        Arch::Sm90,
        "`prefetch.tensormap` cannot take the address [data]: it takes a parameter that is a tensor map, or a register of class b64 with the address of one",
        |k| {
            let data = k.pointer("data");
            k.push(Memory::PrefetchTensorMap { a: data.into() });
        },
    );
    refused(
        Arch::Sm80,
        "`address` cannot take the address [data]: it takes into b32 that of shared memory, into b64 that of a parameter, and a register into its own class",
        |k| {
            let data = k.pointer("data");
            let d = k.reg(RegType::B32);
            k.push(Memory::AddressOf { d, a: data.into() });
        },
    );
}

#[test]
fn alignment_and_bounds() {
    refused(
        Arch::Sm80,
        "`st.shared.v4.f32` at [tile+8] is misaligned: its address must be a multiple of 16",
        |k| {
            let tile = k.shared("tile", 64, 16);
            let x = k.mov(Type::F32, 0.0);
            k.store_vector(SHARED, Address::from(tile).at(8), &[x; 4]);
        },
    );
    refused(
        Arch::Sm80,
        "`st.shared.v4.f32` at [tile] is misaligned: its address must be a multiple of 16",
        |k| {
            let tile = k.shared("tile", 64, 4);
            let x = k.mov(Type::F32, 0.0);
            k.store_vector(SHARED, tile, &[x; 4]);
        },
    );
    refused(
        Arch::Sm80,
        "`ld.shared.f32` at [tile+64] accesses 4 bytes there, beyond the 64 that there are",
        |k| {
            let tile = k.shared("tile", 64, 4);
            k.load(SHARED, Address::from(tile).at(64));
        },
    );
    refused(
        Arch::Sm90,
        "`mbarrier.init` at [bar-8] accesses 8 bytes there, beyond the 16 that there are",
        |k| {
            let bar = k.shared("bar", 16, 8);
            k.mbarrier_init(Address::from(bar).at(-8), 1);
        },
    );
}

#[test]
fn offsets() {
    let far = |offset: i64, said: &str| {
        let sentence = format!(
            "`ld.shared.f32` cannot have {said}: it takes offsets of 32 bits with their sign"
        );
        refused(Arch::Sm80, &sentence, |k| {
            let tile = k.shared("tile", 64, 16);
            let base = k.address_of(tile);
            k.load(SHARED, Address::from(base).at(offset));
        });
    };
    far(1 << 31, "2147483648");
    far(-(1 << 31) - 4, "-2147483652");
    refused(
        Arch::Sm80,
        "`ld.shared.f32` cannot have 9223372036854775807: it takes offsets of 32 bits with their sign",
        |k| {
            let tile = k.shared("tile", 64, 16);
            k.load(SHARED, Address::from(tile).at(i64::MAX).at(4));
        },
    );
}

#[test]
fn nothing_holds_128_bits() {
    let kernel = super::kernel(Arch::Sm80, |k| {
        let tile = k.shared("tile", 64, 16);
        k.store(
            Access {
                ty: Type::B128,
                ..SHARED
            },
            tile,
            1,
        );
    });
    assert_eq!(
        super::sentences(&kernel),
        [
            "`st.shared.b128` cannot take the constant 1: no instruction holds 128 bits",
            "`st.shared.b128` has 1 elements of 16 bytes together: a vector has 1, 2 or 4, and at most 16 bytes"
        ]
    );
}

#[test]
fn variables_of_another_kernel() {
    refused(
        Arch::Sm80,
        "dynamic shared memory is not of this kernel, which has 0 of them: use what its own builder returned",
        |k| {
            k.load(SHARED, Base::DynamicShared);
        },
    );
    let mut other = KernelBuilder::new("other", Arch::Sm80);
    let stray = other.shared("tile", 4, 4);
    refused(
        Arch::Sm80,
        "shared variable 0 is not of this kernel, which has 0 of them: use what its own builder returned",
        |k| {
            k.load(SHARED, stray);
        },
    );
    let stray = other.pointer("data");
    refused(
        Arch::Sm80,
        "parameter 0 is not of this kernel, which has 0 of them: use what its own builder returned",
        |k| {
            k.param(stray);
        },
    );
}

#[test]
fn vectors() {
    refused(
        Arch::Sm80,
        "`ld.shared.v3.f32` has 3 elements of 12 bytes together: a vector has 1, 2 or 4, and at most 16 bytes",
        |k| {
            let tile = k.shared("tile", 64, 16);
            k.load_vector(SHARED, 3, tile);
        },
    );
    refused(
        Arch::Sm80,
        "`ld.shared.v4.u64` has 4 elements of 32 bytes together: a vector has 1, 2 or 4, and at most 16 bytes",
        |k| {
            let tile = k.shared("tile", 64, 16);
            k.load_vector(
                Access {
                    ty: Type::U64,
                    ..SHARED
                },
                4,
                tile,
            );
        },
    );
}

#[test]
fn hints_and_orders() {
    let load = |sentence: &str, access: Access| {
        refused(Arch::Sm90, sentence, |k| {
            let data = k.pointer("data");
            let address = k.param(data);
            let tile = k.shared("tile", 64, 16);
            match access.space {
                Space::Global => k.load(access, address),
                _ => k.load(access, tile),
            };
        });
    };
    let global = Access {
        space: Space::Global,
        ..SHARED
    };
    load(
        "`ld.global.wt.f32` does not exist: ca, lu and cv are for loads, nc for loads from global memory, wb and wt for stores",
        global.cache(Cache::Wt),
    );
    load(
        "`ld.shared.cg.f32` does not exist: only global memory is cached",
        SHARED.cache(Cache::Cg),
    );
    load(
        "`ld.release.gpu.global.f32` does not exist: a load is relaxed, acquire or volatile, a store relaxed, release or volatile",
        global.order(Order::Release(Scope::Gpu)),
    );
    load(
        "`ld.acquire.gpu.global.cg.f32` does not exist: an ordered access takes no cache hint",
        global.order(Order::Acquire(Scope::Gpu)).cache(Cache::Cg),
    );
    refused(
        Arch::Sm90,
        "`st.param.f32` does not exist: parameters are read, and nothing else",
        |k| {
            let n = k.scalar("n", Type::F32);
            let x = k.mov(Type::F32, 0.0);
            k.store(
                Access {
                    space: Space::Param,
                    ..SHARED
                },
                n,
                x,
            );
        },
    );
}
