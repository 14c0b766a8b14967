"""What auto tries between the duals and the integer program: better duals, tables of automata, labelings."""
