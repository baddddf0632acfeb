"""Alert rules, boards, manifests, units and documents that come with the program, and writing them to a folder."""
