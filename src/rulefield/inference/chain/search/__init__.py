"""What auto tries between the duals and the integer programme: better duals, tables of automata, labellings."""
