"""What is exchanged with agents and other programs: file formats, addresses, proofs. Standard library only, no
other package of ours."""
