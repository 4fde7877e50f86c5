//! The modifiers of opcodes.

/// Returns the dot before a modifier; an empty one has none.
pub(crate) fn dot(word: &str) -> &'static str {
    if word.is_empty() { "" } else { "." }
}

macro_rules! modifiers {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $ptx:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every one.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// Returns the modifier as PTX spells it, with the dots inside it.
            pub fn ptx(self) -> &'static str {
                match self { $($name::$variant => $ptx,)* }
            }
        }
    };
}

modifiers! {
    /// An instruction with one source.
    UnaryOp {
        /// `-a`
        Neg = "neg",
        /// `|a|`
        Abs = "abs",
        /// every bit inverted
        Not = "not",
        /// how many bits are set
        Popc = "popc",
        /// how many zeros lead
        Clz = "clz",
        /// bits in reverse order
        Brev = "brev",
        /// position of the highest set bit
        Bfind = "bfind",
        /// `1/a`; approximate in single precision, where subnormals count as zero
        Rcp = "rcp",
        /// square root, rounded to nearest even
        Sqrt = "sqrt",
        /// `1/sqrt(a)`, approximate; subnormal singles count as zero
        Rsqrt = "rsqrt.approx",
        /// `2^a`, approximate; subnormal singles count as zero
        Ex2 = "ex2.approx",
        /// `log2 a`, approximate; subnormal singles count as zero
        Lg2 = "lg2.approx",
        /// sine, approximate; subnormals count as zero
        Sin = "sin.approx",
        /// cosine, approximate; subnormals count as zero
        Cos = "cos.approx",
        /// hyperbolic tangent, approximate
        Tanh = "tanh.approx",
    }
}

modifiers! {
    /// An instruction with two sources.
    BinaryOp {
        /// `a + b`
        Add = "add",
        /// `a - b`
        Sub = "sub",
        /// `a * b`: the low half for integers, rounded to nearest even for floats
        Mul = "mul",
        /// the high half of an integer product
        MulHi = "mul.hi",
        /// an integer product of twice the width
        MulWide = "mul.wide",
        /// `a / b`; toward zero for integers, rounded to nearest even for floats
        Div = "div",
        /// the remainder, with the sign of `a`
        Rem = "rem",
        /// the smaller
        Min = "min",
        /// the larger
        Max = "max",
        /// the smaller float, or NaN if one of the two is
        MinNan = "min.NaN",
        /// the larger float, or NaN if one of the two is
        MaxNan = "max.NaN",
        /// both bits
        And = "and",
        /// either bit
        Or = "or",
        /// one bit but not both
        Xor = "xor",
        /// shift left; by the width or more gives 0
        Shl = "shl",
        /// shift right; arithmetic for signed types
        Shr = "shr",
    }
}

modifiers! {
    /// An instruction with three sources.
    TernaryOp {
        /// `a * b + c`, the low half
        Mad = "mad.lo",
        /// the high half of `a * b`, plus `c`
        MadHi = "mad.hi",
        /// `a * b + c` in twice the width
        MadWide = "mad.wide",
        /// `a * b + c`, rounded once
        Fma = "fma.rn",
        /// bytes of `a` and `b` chosen by the nibbles of `c`
        Prmt = "prmt",
        /// the upper word of `(b:a) << c`, wrapping the count
        ShfL = "shf.l.wrap",
        /// the lower word of `(b:a) >> c`, wrapping the count
        ShfR = "shf.r.wrap",
        /// `c` bits of `a` from bit `b`
        Bfe = "bfe",
    }
}

modifiers! {
    /// A comparison. The `u` forms hold for a NaN too.
    Compare {
        /// equal
        Eq = "eq",
        /// not equal
        Ne = "ne",
        /// less
        Lt = "lt",
        /// less or equal
        Le = "le",
        /// greater
        Gt = "gt",
        /// greater or equal
        Ge = "ge",
        /// equal, or not comparable
        Equ = "equ",
        /// not equal, or not comparable
        Neu = "neu",
        /// less, or not comparable
        Ltu = "ltu",
        /// greater, or not comparable
        Gtu = "gtu",
        /// either is a NaN
        Nan = "nan",
    }
}

modifiers! {
    /// The rounding of a conversion.
    Rounding {
        /// to nearest, ties to even
        Rn = "rn",
        /// toward zero
        Rz = "rz",
        /// to nearest, ties away from zero
        Rna = "rna",
        /// to an integer: nearest, ties to even
        Rni = "rni",
        /// to an integer: toward zero
        Rzi = "rzi",
        /// to an integer: down
        Rmi = "rmi",
        /// to an integer: up
        Rpi = "rpi",
    }
}

modifiers! {
    /// The state space of a load, a store or an atomic operation.
    Space {
        /// Device memory; 64-bit addresses.
        Global = "global",
        /// Shared memory of the block; 32-bit addresses.
        Shared = "shared::cta",
        /// Shared memory of any block of the cluster; 32-bit addresses from `mapa`.
        Cluster = "shared::cluster",
        /// Kernel parameters.
        Param = "param",
        /// Any of them, by a 64-bit address.
        Generic = "",
    }
}

modifiers! {
    /// The cache operator of a load or store (PTX ISA 9.7.9).
    Cache {
        /// nothing
        Default = "",
        /// in every level
        Ca = "ca",
        /// in the second level only
        Cg = "cg",
        /// likely read once
        Cs = "cs",
        /// last use
        Lu = "lu",
        /// do not cache, fetch again
        Cv = "cv",
        /// write back
        Wb = "wb",
        /// write through
        Wt = "wt",
        /// read-only for the kernel's whole life
        Nc = "nc",
        /// read-only, not kept in the first level
        NcNoAllocate = "nc.L1::no_allocate",
        /// read-only, not kept in the first level, 256 bytes fetched into the second
        NcNoAllocate256 = "nc.L1::no_allocate.L2::256B",
        /// not kept in the first level
        NoAllocate = "L1::no_allocate",
    }
}

modifiers! {
    /// The scope of an ordered access: the threads that observe it.
    Scope {
        /// the block
        Cta = "cta",
        /// the cluster
        Cluster = "cluster",
        /// the device
        Gpu = "gpu",
        /// the host as well
        Sys = "sys",
    }
}

/// The memory order of an access (PTX ISA 8.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Not at all.
    #[default]
    Weak,
    /// Atomic, unordered.
    Relaxed(Scope),
    /// Acquire: a load, ordered before everything that follows.
    Acquire(Scope),
    /// Release: a store, ordered after everything that precedes.
    Release(Scope),
    /// Acquire and release, for an atomic operation.
    AcqRel(Scope),
    /// Volatile: never elided.
    Volatile,
}

modifiers! {
    /// An atomic operation on the value in memory.
    AtomicOp {
        /// the sum
        Add = "add",
        /// the smaller
        Min = "min",
        /// the larger
        Max = "max",
        /// counts up to the new value, then from 0
        Inc = "inc",
        /// counts down to 0, then from the new value
        Dec = "dec",
        /// both bits
        And = "and",
        /// either bit
        Or = "or",
        /// one bit but not both
        Xor = "xor",
        /// replaces it
        Exch = "exch",
        /// replaces it if it equals the first operand
        Cas = "cas",
    }
}

modifiers! {
    /// The mode of a shuffle: how it selects the source lane.
    ShuffleMode {
        /// the lane named
        Idx = "idx",
        /// lane minus the operand
        Up = "up",
        /// lane plus the operand
        Down = "down",
        /// lane xor the operand
        Bfly = "bfly",
    }
}

modifiers! {
    /// The mode of a vote.
    VoteMode {
        /// true in all lanes
        All = "all",
        /// true in some lane
        Any = "any",
        /// the same in all lanes
        Uni = "uni",
        /// the mask of lanes where it is true
        Ballot = "ballot",
    }
}

modifiers! {
    /// The operation on a named barrier.
    BarrierOp {
        /// arrives and waits
        Sync = "sync",
        /// arrives and goes on
        Arrive = "arrive",
    }
}

modifiers! {
    /// The memory order of a cluster barrier.
    ClusterOrder {
        /// arrive: everything before it
        Release = "release",
        /// arrive: nothing
        Relaxed = "relaxed",
    }
}

modifiers! {
    /// A fence.
    FenceKind {
        /// generic and asynchronous proxy, shared memory of the block
        ProxyAsyncShared = "fence.proxy.async.shared::cta",
        /// generic and asynchronous proxy, global memory
        ProxyAsyncGlobal = "fence.proxy.async.global",
        /// generic and asynchronous proxy, all memory
        ProxyAsync = "fence.proxy.async",
        /// initialised barriers, before the cluster uses them
        MbarrierInit = "fence.mbarrier_init.release.cluster",
        /// acquire and release, block
        AcqRelCta = "fence.acq_rel.cta",
        /// acquire and release, cluster
        AcqRelCluster = "fence.acq_rel.cluster",
        /// acquire and release, device
        AcqRelGpu = "fence.acq_rel.gpu",
        /// acquire and release, system
        AcqRelSys = "fence.acq_rel.sys",
    }
}

pub(crate) use modifiers;
