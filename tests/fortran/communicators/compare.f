! ranks: 2
! Communicators with the same processes are not the same.
      PROGRAM COMPAR
      USE MPI_F08
      IMPLICIT NONE
      TYPE(MPI_COMM) A, B, C
      INTEGER ME, R
      CALL MPI_INIT()
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME)
      A = MPI_COMM_WORLD
      CALL MPI_COMM_DUP(A, B)
      CALL MPI_COMM_SPLIT(A, 0, -ME, C)
      CALL MPI_COMM_COMPARE(A, MPI_COMM_WORLD, R)
      IF (R .NE. MPI_IDENT) ERROR STOP 'the same'
      CALL MPI_COMM_COMPARE(A, B, R)
      IF (R .NE. MPI_CONGRUENT) ERROR STOP 'a copy'
      CALL MPI_COMM_COMPARE(A, C, R)
      IF (R .NE. MPI_SIMILAR) ERROR STOP 'another order'
      CALL MPI_COMM_COMPARE(MPI_COMM_SELF, A, R)
      IF (R .NE. MPI_UNEQUAL) ERROR STOP 'other processes'
      IF (A /= MPI_COMM_WORLD .OR. A == B) ERROR STOP 'the operators'
      CALL MPI_COMM_FREE(B)
      CALL MPI_COMM_FREE(C)
      CALL MPI_FINALIZE()
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
